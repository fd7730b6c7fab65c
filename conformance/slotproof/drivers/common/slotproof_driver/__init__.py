"""Code that the drivers of several engines share: message loop, field checks, stubs of packages.

The code runs in the environment of the engine under test and needs only the standard library. The
package of each driver adds this folder to the import path.
"""
