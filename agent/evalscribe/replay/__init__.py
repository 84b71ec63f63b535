"""Run references and stored outputs through a grader again, in a sandbox, and conclude whose fault a failure is."""
