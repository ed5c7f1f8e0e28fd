"""Software as dated data: what each framework does by itself in which release, and public recipes by name.

`training/<framework>.yaml` holds spellings, releases, defaults and number formats of a framework, each with its source;
`recipes/<framework>/*.yaml` holds recipes; `weight_formats.yaml` says which format of numbers a word stands for.
Nothing else states what software does when a scenario is silent.
"""
