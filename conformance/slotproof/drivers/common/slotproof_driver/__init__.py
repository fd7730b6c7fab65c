"""What drivers of several engines share: the frame around requests, fields, stand-ins.

It runs in the environment of the engine under test: the standard library alone. A driver's own
package puts this folder on the path, wherever it is imported from.
"""
