import type {Command} from '@oclif/core/command'
import {CommandHelp, Help} from '@oclif/core/help'
import type {Config, Topic} from '@oclif/core/interfaces'
import {fail, failureJson} from '../base/failure.js'
import {unknownCommand, unknownHelpSubject} from './command-not-found.js'
import type {HelpEntryJson, HelpResult} from './results.js'
import {showRootHelp} from './root-help.js'
import {HELP_TOPICS, type HelpTopic} from './topics.js'

export class ZaelCommandHelp extends CommandHelp {
  /** Omits flags: they would fill half a screen, and oclif groups mutually exclusive ones wrongly. */
  protected override defaultUsage(): string {
    const args = Object.values(this.command.args ?? {}).filter(({hidden}) => !hidden)
    const words = args.map(({name, multiple, required}) => {
      const word = `${name.toUpperCase()}${multiple ? '...' : ''}`
      return required ? word : `[${word}]`
    })
    return [this.command.id, ...words, '[FLAGS]'].join(' ')
  }

  protected override sections(): ReturnType<CommandHelp['sections']> {
    const place = (header: string) => (ORDER.includes(header) ? ORDER.indexOf(header) : ORDER.length)
    return super.sections().toSorted((a, b) => place(a.header) - place(b.header))
  }

  protected override groupFlags(
    flags: Parameters<CommandHelp['groupFlags']>[0],
  ): ReturnType<CommandHelp['groupFlags']> {
    const {mainFlags, flagGroups} = super.groupFlags(flags)
    const isLate = ([name]: [string, unknown]) => EVERYWHERE.includes(name)
    const groups = Object.entries(flagGroups)
    return {
      mainFlags,
      flagGroups: Object.fromEntries([...groups.filter(each => !isLate(each)), ...groups.filter(isLate)]),
    }
  }
}

export default class ZaelHelp extends Help {
  protected override CommandHelpClass = ZaelCommandHelp

  /** oclif calls this for `--help` anywhere, for a bare `zael`, and for a group without a command. */
  override async showHelp(argv: string[]): Promise<void> {
    const firstFlag = argv.findIndex(arg => arg.startsWith('-'))
    const typed = (firstFlag < 0 ? argv : argv.slice(0, firstFlag)).flatMap(word => word.split(':'))
    const words = typed[0] === 'help' && typed.length > 1 ? typed.slice(1) : typed
    const json = argv.includes('--json')
    const subject = this.find(words)
    if (!subject) {
      const failure = typed === words ? unknownCommand(this.config, words) : unknownHelpSubject(this.config, words)
      fail(failure, {
        jsonBody: json ? failureJson(failure) : undefined,
        debug: this.config.scopedEnvVarTrue('DEBUG'),
      })
    }
    if (json) this.log(JSON.stringify(describeSubject(this.config, subject), null, 2))
    else await this.show(subject)
  }

  /** Words after a command are its arguments; after a group they are unknown. */
  find(words: readonly string[]): HelpSubject | undefined {
    if (words.length === 0) return {kind: 'root'}
    const text = words.length === 1 && HELP_TOPICS.find(({name}) => name === words[0])
    if (text) return {kind: 'text', text}
    for (let length = words.length; length > 0; length--) {
      const command = this.config.findCommand(words.slice(0, length).join(':'))
      if (command) return {kind: 'command', command}
    }
    const group = this.config.findTopic(words.join(':'))
    return group && {kind: 'group', group}
  }

  async show(subject: HelpSubject): Promise<void> {
    if (subject.kind === 'root') await showRootHelp()
    else if (subject.kind === 'text') this.showText(subject.text)
    else if (subject.kind === 'group') await this.showTopicHelp(subject.group)
    else await this.showCommandHelp(subject.command)
  }

  private showText({summary, about, entries}: HelpTopic): void {
    const rows = entries.map(({term, meaning}): [string, string] => [term, meaning])
    this.log(`${this.wrap(summary, 0)}\n\n${this.indent(this.list(rows))}\n\n${this.wrap(about, 0)}`)
  }

  private list(rows: [string, string][]): string {
    return this.renderList(rows, {indentation: 2, spacer: '\n', stripAnsi: this.opts.stripAnsi ?? false})
  }
}

const ORDER = ['USAGE', 'DESCRIPTION', 'EXAMPLES', 'ARGUMENTS', 'FLAGS']

const EVERYWHERE = ['STACK', 'GLOBAL']

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
