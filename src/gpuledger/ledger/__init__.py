"""The books: activities, steps, the causes of idle time, and the lines that sum to the wall time."""
