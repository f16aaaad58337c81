"""A campaign in pieces that can be run anywhere, alone, again and in any order: cut, count one, join."""
