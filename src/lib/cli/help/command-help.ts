import {CommandHelp} from '@oclif/core/help'

/** Sections in this order; others last. */
const ORDER = ['USAGE', 'DESCRIPTION', 'EXAMPLES', 'ARGUMENTS', 'FLAGS']

const EVERYWHERE = ['STACK', 'GLOBAL']

/** oclif's help of one command, with a short usage line, examples before flags, and shared flags last. */
export class ZaelCommandHelp extends CommandHelp {
  /** Without flags: they would fill half a screen, and oclif groups mutually exclusive ones wrongly. */
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
