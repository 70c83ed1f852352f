"""A finished look as one value, and its renderings: plain records for JSON, sentences for people."""
