/** What commands of the Python tool are called here, for people who have used it. */
export const RENAMED: readonly (readonly [python: string, here: string])[] = [
  ['cfn-template', 'deploy --export DIR'],
  ['lambda-export', 'deploy --export DIR'],
  ['check', 'doctor'],
  ['upgrade', 'deploy'],
  ['resource set-defaults', 'limits set --resource NAME'],
  ['resource get-defaults', 'limits get --resource NAME'],
  ['resource delete-defaults', 'limits unset --resource NAME'],
  ['resource list', 'limits list'],
  ['system set-defaults', 'limits set --system'],
  ['system get-defaults', 'limits get --system'],
  ['system delete-defaults', 'limits unset --system'],
  ['entity set-limits', 'limits set --entity ID'],
  ['entity get-limits', 'limits get --entity ID'],
  ['entity delete-limits', 'limits unset --entity ID'],
  ['entity list-resources', 'limits list'],
  ['namespace register', 'namespace create'],
  ['usage list', 'usage show'],
  ['limits cfn-template', 'limits export'],
]

/** The command that stands for one of the Python tool; `undefined` when the words are none of its commands. */
export function pythonCommand(words: readonly string[]): string | undefined {
  return RENAMED.find(([python]) => python.split(' ').every((word, at) => word === words[at]))?.[1]
}
