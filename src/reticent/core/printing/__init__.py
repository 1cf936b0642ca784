"""Numbers rounded to the side that keeps a sentence true, and text from outside made safe to show."""
