"""The common parts of all pages of the inspection tools: templates, colors, and small functions of the scripts.

A page is one file that loads nothing; its security policy refuses every address. Text of the program is escaped or
passed as JSON, and scripts insert it as text, never as HTML. The pages of `drawing`, `doctor`, `profiling`, `stepping`
and `watching` are filled here, and nothing outside of `inspect` calls this folder.
"""
