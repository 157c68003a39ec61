import {
  resourceSwitchArgs,
  resourceSwitchExamples,
  SwitchCommand,
  temporaryFlags,
} from '../../lib/cli/limits/switch-command.js'

export default class ResourceBypass extends SwitchCommand<typeof ResourceBypass> {
  static override summary = 'Admit and count every request for a resource'

  static override description =
    'Requests count in usage but consume no tokens. Takes effect within a second; for requests above the capacity ' +
    'of a limit, within a minute. If an entity or a parent has its own switch (disable, bypass, exempt), that ' +
    'switch applies. `zael resource clear` ends the bypass within a minute.'

  static override args = resourceSwitchArgs

  static override flags = temporaryFlags

  static override examples = [
    ...resourceSwitchExamples('bypass'),
    {command: 'zael resource bypass gpt-4 --for 30m', description: 'For half an hour'},
  ]
}
