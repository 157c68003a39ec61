import fc from 'fast-check'

// On CI properties are tried on the same examples in every run: a change is not to be held up by an example that has
// nothing to do with it. Everywhere else the examples are new ones each time, which is how such an example is found.
if (process.env.CI) fc.configureGlobal({seed: 1})
