import {execute} from '@oclif/core/execute'
import {settings} from '@oclif/core/settings'

/** `from`: the URL of a file of the package. */
export async function runCommandLine(from: string): Promise<void> {
  // NODE_ENV=test in a user's shell must not send oclif looking for TypeScript.
  settings.enableAutoTranspile = false
  // zael has no plugins. oclif would search the data folder for some and complain about unreadable ones.
  await execute({dir: from, loadOptions: {userPlugins: false}})
}
