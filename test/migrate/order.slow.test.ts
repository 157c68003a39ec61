import {describeOnEngine} from '../helpers/table.js'
import {describeStartingClients} from './starting-clients.js'

describeOnEngine('a client that starts in the middle of a migration', () => {
  describeStartingClients('of a table with buckets', {
    hasBuckets: true,
    version: '0.7.0',
    first: 'schema.needs-migration 5',
  })

  // `upgrade` of the Python tool recorded a layout that the data does not have.
  describeStartingClients('of a table whose version is newer than its data', {
    hasBuckets: false,
    version: '0.9.0',
    first: 'namespace.missing 3',
  })
})
