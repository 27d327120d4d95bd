"""Pages: one module per section of a report's page, and one per page of the other verbs."""
