"""Tasks that are brought along: what stands behind `task.name: own`."""
