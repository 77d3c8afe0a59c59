"""The error that a user can correct: printed in one line, never as a traceback."""


class UserError(Exception):
    """Something outside the program is wrong, and the user can correct it.

    The message is one line that says what is wrong and what to do. `main` prints it and exits 2.
    """
