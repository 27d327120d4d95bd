"""What is known of the world, whatever the profile: kernel names and families, GPU peaks, links, metric names."""
