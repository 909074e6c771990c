"""Episodes that clients play, warm and cold, and their grading."""
