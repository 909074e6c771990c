"""Results of load-test tools: readers of their files, and what in them is doubted."""
