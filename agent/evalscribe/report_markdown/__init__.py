"""The report as markdown: `parse(render(report)) == report`. Its layout is a contract and cannot be overridden."""
