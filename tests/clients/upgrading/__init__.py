"""Old clients before and after an upgrade: exactly those break that `report --upgrade-to` names."""
