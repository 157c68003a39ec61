import fc from 'fast-check'

// CI uses the same examples in every run, so that an unrelated example does not block a change. Elsewhere, each run
// uses new examples, which finds such cases.
if (process.env.CI) fc.configureGlobal({seed: 1})
