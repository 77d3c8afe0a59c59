"""What a check found, for people and tools: tables, JUnit, the fleet report. `page.css` is its style."""
