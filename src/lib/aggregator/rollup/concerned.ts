import {groupBy} from '../../core/group-by.js'
import type {RollupSchedule} from '../../core/window.js'
import type {UsageRecord} from '../../schema/usage-record.js'
import type {ResourceWindow} from './agenda.js'
import {isLate, startWithin} from './due.js'

type Counted = Pick<UsageRecord, 'namespace' | 'entity' | 'resource' | 'window' | 'start'>

export type ConcernedDay = Pick<UsageRecord, 'namespace' | 'entity' | 'resource'> & {readonly day: string}

const isHour = ({window}: Counted): boolean => window === 'hourly'

export function agendaEntries<T extends Counted>(
  groups: readonly T[],
  schedule: RollupSchedule,
  nowMs: number,
): {entry: ResourceWindow; groups: T[]}[] {
  const concerned = (['daily', 'monthly'] as const).flatMap(window =>
    groups.filter(isHour).flatMap(group => {
      const {namespace, resource} = group
      const start = startWithin(window, group.start)
      const isDue = schedule.isRolled(window, start) && !isLate(window, start, nowMs)
      return isDue ? [{entry: {namespace, resource, window, start}, group}] : []
    }),
  )
  return [...groupBy(concerned, ({entry}) => Object.values(entry).join('#')).values()].flatMap(members =>
    members[0] ? [{entry: members[0].entry, groups: members.map(({group}) => group)}] : [],
  )
}

export function concernedDays<T extends Counted>(groups: readonly T[]): (ConcernedDay & {groups: T[]})[] {
  const dayOf = ({namespace, entity, resource, start}: T): ConcernedDay => ({
    ...{namespace, entity, resource},
    day: startWithin('daily', start),
  })
  const byDay = groupBy(groups.filter(isHour), group => Object.values(dayOf(group)).join('#'))
  return [...byDay.values()].flatMap(members => (members[0] ? [{...dayOf(members[0]), groups: members}] : []))
}
