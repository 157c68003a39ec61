import {ZaelError} from '../../core/errors.js'

export interface Misfit {
  /** Completes "the table …". */
  readonly what: string
  readonly fix: string
}

export function emptyTable(name: string): ZaelError {
  return new ZaelError(
    'conflict',
    'deploy.table-empty',
    `There is an empty table "${name}" that belongs to no stack.`,
    {
      hint:
        'Nothing was changed: an empty table has no sign of whose it is. If nobody needs it, delete it, then run the same ' +
        `command again: aws dynamodb delete-table --table-name ${name}`,
      details: {stack: name},
    },
  )
}

export function foreignTable(name: string, why: string): ZaelError {
  const message = `There is a table "${name}" that belongs to no stack and is not a rate limiter's: ${why}.`
  return new ZaelError('conflict', 'table.foreign', message, {
    hint: 'Nothing was changed. Choose another name with --stack, or another --region or --profile.',
    details: {stack: name},
  })
}

export function misfittingTable(name: string, misfits: readonly Misfit[]): ZaelError {
  const fixes = [...new Set(misfits.map(({fix}) => fix))]
  const message = `The table "${name}" cannot be adopted as it is: it ${misfits.map(({what}) => what).join(', ')}.`
  return new ZaelError('conflict', 'deploy.adopt-misfit', message, {
    hint:
      'Nothing was changed, and every command works with the table. CloudFormation imports a table without looking at it, ' +
      `so change it first, then run the same command again:\n${fixes.map(fix => `  ${fix}`).join('\n')}`,
    details: {stack: name, misfits: misfits.map(({what}) => what), fixes},
  })
}

export function otherOption(name: string, flag: string, has: string): ZaelError {
  return new ZaelError(
    'conflict',
    'deploy.adopt-differs',
    `The table "${name}" has ${has}, and an import changes nothing.`,
    {
      hint: `Nothing was changed. Adopt the table as it is, without ${flag}; then change it with the same command again.`,
      details: {stack: name, flag},
    },
  )
}

/** DynamoDB does not report whether a key is customer-managed. */
export function unknownKey(name: string, key: string): ZaelError {
  return new ZaelError('conflict', 'deploy.adopt-key', `The table "${name}" is encrypted with the key ${key}.`, {
    hint:
      `Nothing was changed. State whose key it is: --encryption-key ${key} if it is your own, ` +
      '--encryption-key aws-managed if it is aws/dynamodb.',
    details: {stack: name, key},
  })
}

/** CloudFormation plans a new table although one exists: an emulator, or AWS changed its rules. */
export function notImported(name: string): ZaelError {
  const message = `There is a table "${name}" that belongs to no stack, and CloudFormation does not offer to import it.`
  return new ZaelError('conflict', 'deploy.table-exists', message, {
    hint:
      'Nothing was changed, and every command works with the table as it is. If it can be deleted: ' +
      `zael delete --stack ${name} --delete-table`,
    details: {stack: name},
  })
}

export function failedStackHasItems(name: string): ZaelError {
  const message = `An earlier deployment of "${name}" failed, and its table has items.`
  return new ZaelError('conflict', 'deploy.table-exists', message, {
    hint:
      'Nothing was changed. Delete what is left of the stack, which keeps the table, then adopt it: ' +
      `zael delete --stack ${name}, then zael deploy --stack ${name}`,
    details: {stack: name},
  })
}
