"""A report as a PDF and as a page: layout, and escaping of whatever is put into it."""
