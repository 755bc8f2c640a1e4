"""What travels over HTTP, as pydantic models: `requests`, `responses`, and the `values` in them.

The OpenAPI document is made from these.
"""
