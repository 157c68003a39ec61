export interface Check {
  readonly group: 'machine' | 'account' | 'stack'
  readonly name: string
  readonly state: 'ok' | 'warn' | 'fail'
  readonly message: string
  readonly fix: string | null
}

export function passedCheck(group: Check['group'], name: string, message: string): Check {
  return {group, name, state: 'ok', message, fix: null}
}

export function warningCheck(group: Check['group'], name: string, message: string, fix: string | null): Check {
  return {group, name, state: 'warn', message, fix}
}

export function failedCheck(group: Check['group'], name: string, message: string, fix: string | null): Check {
  return {group, name, state: 'fail', message, fix}
}
