"""Row ids: allocating them, and stand-ins for rows that have none yet."""
