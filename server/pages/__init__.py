"""Pages of text: the landing page, the API's documentation."""
