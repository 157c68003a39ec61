const WEEKDAYS = ['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT']
const MONTHS = ['JAN', 'FEB', 'MAR', 'APR', 'MAY', 'JUN', 'JUL', 'AUG', 'SEP', 'OCT', 'NOV', 'DEC']

const MONTH_FIELD = 3
const WEEKDAY_FIELD = 4

/** The five fields of a cron expression; `undefined` if it has more or fewer. */
export function cronFields(cron: string): readonly string[] | undefined {
  const fields = cron.split(/\s+/).filter(field => field !== '')
  return fields.length === 5 ? fields : undefined
}

/**
 * One spelling for each cron, which is also the one that the table keeps: single blanks, numbers in place of names of days
 * and months, 7 for a Sunday on its own. Two texts that differ only in spelling are no change of a limit.
 */
export function canonicalCron(cron: string): string {
  const fields = cronFields(cron)
  if (fields === undefined) return cron
  return fields
    .map((field, index) => {
      if (index === MONTH_FIELD) return numbersFor(field, MONTHS, 1)
      return index === WEEKDAY_FIELD ? field.split(',').map(weekday).join(',') : field
    })
    .join(' ')
}

/** Sunday is 7 on its own, but 0 in a range or a step: `SUN-THU` is `0-4`. */
function weekday(item: string): string {
  return item === '0' || item.toUpperCase() === 'SUN' ? '7' : numbersFor(item, WEEKDAYS, 0)
}

function numbersFor(text: string, names: readonly string[], first: number): string {
  return text.replace(/[a-z]+/gi, name => {
    const index = names.indexOf(name.toUpperCase())
    return index < 0 ? name : String(index + first)
  })
}
