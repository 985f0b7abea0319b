"""The lab: a local server, and the built page that it serves (sources in /page at the root)."""
