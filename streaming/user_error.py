"""What a user can put right: told in one line, never as a traceback."""


class UserError(Exception):
    """Something outside the program is wrong, and a person can mend it.

    The message is one line that says what is wrong and what to do. The command line prints it and exits 2.
    """
