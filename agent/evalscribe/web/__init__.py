"""Web pages: an inbox of findings to decide, runs with their evidence, comparisons and more.

A local server shows the pages, or they are written as files that open without a server.
"""
