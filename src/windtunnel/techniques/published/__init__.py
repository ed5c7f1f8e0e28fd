"""Published techniques: `<id>.yaml` says what one is; a module of that name, with `_` for `-`, holds its hooks."""
