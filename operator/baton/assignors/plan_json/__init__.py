"""Requests and answers as JSON, as `baton plan` reads and writes them."""
