/**
 * Names of time zones that JavaScript knows and does not list: older names, names of countries, and fixed offsets. Which of
 * them `Intl` lists depends on its version, and it accepts names that other programs do not (`PST`, `europe/berlin`); a name
 * that is stored in a table must mean the same to every client. One region per line, `.` for names without one.
 */
const UNLISTED = `
.: CET CST6CDT Cuba EET EST EST5EDT Egypt Eire GB GB-Eire GMT GMT+0 GMT-0 GMT0 Greenwich HST Hongkong Iceland Iran
.: Israel Jamaica Japan Kwajalein Libya MET MST MST7MDT NZ NZ-CHAT Navajo PRC PST8PDT Poland Portugal ROC ROK
.: Singapore Turkey UCT UTC Universal W-SU WET Zulu
Africa: Accra Addis_Ababa Asmara Asmera Bamako Bangui Banjul Blantyre Brazzaville Bujumbura Conakry Dakar
Africa: Dar_es_Salaam Djibouti Douala Freetown Gaborone Harare Kampala Kigali Kinshasa Libreville Lome Luanda
Africa: Lubumbashi Lusaka Malabo Maseru Mbabane Mogadishu Niamey Nouakchott Ouagadougou Porto-Novo Timbuktu
America: Anguilla Antigua Aruba Atikokan Atka Blanc-Sablon Buenos_Aires Catamarca Cayman Coral_Harbour Cordoba Creston
America: Curacao Dominica Ensenada Fort_Wayne Godthab Grenada Guadeloupe Indianapolis Jujuy Knox_IN Kralendijk
America: Louisville Lower_Princes Marigot Mendoza Montreal Montserrat Nassau Nipigon Nuuk Pangnirtung Port_of_Spain
America: Porto_Acre Rainy_River Rosario Santa_Isabel Shiprock St_Barthelemy St_Kitts St_Lucia St_Thomas St_Vincent
America: Thunder_Bay Tortola Virgin Yellowknife
America/Argentina: Buenos_Aires Catamarca ComodRivadavia Cordoba Jujuy Mendoza
America/Indiana: Indianapolis
America/Kentucky: Louisville
Antarctica: DumontDUrville McMurdo South_Pole Syowa
Arctic: Longyearbyen
Asia: Aden Ashkhabad Bahrain Brunei Calcutta Choibalsan Chongqing Chungking Dacca Harbin Ho_Chi_Minh Istanbul Kashgar
Asia: Kathmandu Katmandu Kolkata Kuala_Lumpur Kuwait Macao Muscat Phnom_Penh Rangoon Saigon Tel_Aviv Thimbu
Asia: Ujung_Pandang Ulan_Bator Vientiane Yangon
Atlantic: Faeroe Faroe Jan_Mayen Reykjavik St_Helena
Australia: ACT Canberra Currie LHI NSW North Queensland South Tasmania Victoria West Yancowinna
Brazil: Acre DeNoronha East West
Canada: Atlantic Central Eastern Mountain Newfoundland Pacific Saskatchewan Yukon
Chile: Continental EasterIsland
Etc: GMT GMT+0 GMT-0 GMT0 Greenwich UCT UTC Universal Zulu
Europe: Amsterdam Belfast Bratislava Busingen Copenhagen Guernsey Isle_of_Man Jersey Kiev Kyiv Ljubljana Luxembourg
Europe: Mariehamn Monaco Nicosia Oslo Podgorica San_Marino Sarajevo Skopje Stockholm Tiraspol Uzhgorod Vaduz Vatican
Europe: Zagreb Zaporozhye
Indian: Antananarivo Christmas Cocos Comoro Kerguelen Mahe Mayotte Reunion
Mexico: BajaNorte BajaSur General
Pacific: Chuuk Enderbury Funafuti Johnston Kanton Majuro Midway Pohnpei Ponape Saipan Samoa Truk Wake Wallis Yap
US: Alaska Aleutian Arizona Central East-Indiana Eastern Hawaii Indiana-Starke Michigan Mountain Pacific Samoa
`

/** Every name of a time zone that may be stored, in its exact spelling. */
export function timeZoneNames(): ReadonlySet<string> {
  names ??= new Set([...Intl.supportedValuesOf('timeZone'), ...unlistedNames(), ...fixedOffsets()])
  return names
}

let names: ReadonlySet<string> | undefined

function unlistedNames(): string[] {
  return UNLISTED.trim()
    .split('\n')
    .flatMap(line => {
      const [region = '', list = ''] = line.split(': ')
      return list.split(' ').map(name => (region === '.' ? name : `${region}/${name}`))
    })
}

/** `Etc/GMT+12` to `Etc/GMT-14`. Their sign is that of POSIX: `Etc/GMT-2` is two hours ahead of UTC. */
function fixedOffsets(): string[] {
  const west = Array.from({length: 12}, (_, at) => `Etc/GMT+${at + 1}`)
  const east = Array.from({length: 14}, (_, at) => `Etc/GMT-${at + 1}`)
  return [...west, ...east]
}
