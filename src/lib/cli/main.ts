import {execute} from '@oclif/core/execute'
import {settings} from '@oclif/core/settings'

/** Runs the command that the arguments of this process name; `from` is the URL of a file of the package. */
export async function runCommandLine(from: string): Promise<void> {
  // NODE_ENV=test in a user's shell must not send oclif looking for TypeScript.
  settings.enableAutoTranspile = false
  // zael has no plugins; oclif would look for some in the data folder and complain about one it cannot read.
  await execute({dir: from, loadOptions: {userPlugins: false}})
}
