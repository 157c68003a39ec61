import type {Command} from '@oclif/core/command'
import type {Config, Topic} from '@oclif/core/interfaces'
import type {HelpEntryJson, HelpResult} from './results.js'
import {HELP_TOPICS, type HelpTopic} from './topics.js'

/** oclif calls a `group` of commands a topic. */
export type HelpSubject =
  | {readonly kind: 'root'}
  | {readonly kind: 'text'; readonly text: HelpTopic}
  | {readonly kind: 'command'; readonly command: Command.Loadable}
  | {readonly kind: 'group'; readonly group: Topic}

export function describeSubject(config: Config, subject: HelpSubject): HelpResult {
  if (subject.kind === 'text') return subject.text
  if (subject.kind === 'command') return describeCommand(subject.command)
  if (subject.kind === 'group') {
    const {name, description} = subject.group
    return {name: spaced(name), summary: description ?? '', commands: summaries(config, `${name}:`)}
  }
  return {
    name: config.bin,
    version: config.version,
    summary: config.pjson.description,
    commands: summaries(config, ''),
    helpTopics: HELP_TOPICS.map(({name, summary}) => ({name, summary})),
  }
}

function describeCommand(command: Command.Loadable): HelpResult {
  const {id, summary = '', description, args, flags, examples = []} = command
  return {
    name: spaced(id),
    summary,
    description,
    args: Object.values(args).map(arg => ({
      name: arg.name,
      description: arg.description,
      required: arg.required ?? false,
      multiple: arg.multiple ?? false,
    })),
    flags: Object.values(flags).map(flag => ({
      name: flag.name,
      char: flag.char,
      description: flag.summary ?? flag.description,
      required: flag.required ?? false,
      takesValue: flag.type === 'option',
    })),
    examples: examples.map(example => (typeof example === 'string' ? {command: example, description: ''} : example)),
  }
}

function summaries(config: Config, prefix: string): HelpEntryJson[] {
  return config.commands
    .filter(command => !command.hidden && command.id.startsWith(prefix))
    .map(({id, summary, description}) => ({name: spaced(id), summary: summary ?? description ?? ''}))
}

function spaced(id: string): string {
  return id.replaceAll(':', ' ')
}
