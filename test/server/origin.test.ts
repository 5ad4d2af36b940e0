/** Names that lead to a server, and pages that may call it. */
import { expect, test } from '@jest/globals';
import { isLoopback, requireNamed, type Names } from '../../src/server/origin.js';

test.each<[string, boolean]>([
  ['localhost', true],
  ['::1', true],
  ['127.0.0.1', true],
  ['127.255.0.9', true],
  ['127.0.0.1.evil.com', false],
  ['evil.127.0.0.1', false],
  ['128.0.0.1', false],
  ['0.0.0.0', false],
  ['::', false],
  ['localhost.evil.com', false],
  ['', false],
])('%s is this machine: %s', (host, is) => {
  expect(isLoopback(host)).toBe(is);
});

const here: Names = {
  host: '127.0.0.1',
  hosts: ['laptop.example.org'],
  origins: ['https://page.example.org'],
  secure: false,
};
const everywhere: Names = { ...here, host: '0.0.0.0' };
const named: Names = { ...here, host: 'Server.Example.org' };
const secure: Names = { ...here, secure: true };
const OTHER = 'other.example.org';

test.each<[string, Names, string | undefined, string | undefined, string | null]>([
  ['this machine', here, 'localhost:1', undefined, null],
  ['this machine by its address', here, '127.0.0.1:8080', undefined, null],
  ['this machine in brackets', here, '[::1]:65535', undefined, null],
  ['a further name', here, 'laptop.example.org', undefined, null],
  ['a further name in capitals', here, 'LAPTOP.example.org:80', undefined, null],
  ['a name that it was not given', here, OTHER, undefined, 'host_not_allowed'],
  [
    'an address of its machine, where it listens on this one alone',
    here,
    '192.168.1.7',
    undefined,
    'host_not_allowed',
  ],
  [
    'an address of its machine, where it listens on all',
    everywhere,
    '192.168.1.7:80',
    undefined,
    null,
  ],
  ['a long address', everywhere, '[fe80::7]:80', undefined, null],
  ['a name, where it listens on all', everywhere, OTHER, undefined, 'host_not_allowed'],
  ['the name that it listens on', named, 'server.example.ORG:80', undefined, null],
  ['no name', here, undefined, undefined, 'host_not_allowed'],
  ['a port that is too long', here, 'localhost:123456', undefined, 'host_not_allowed'],
  ['a page that was named', here, 'localhost', 'https://page.example.org', null],
  ['its own page', here, 'localhost:8080', 'http://localhost:8080', null],
  [
    'its own page behind something that speaks HTTPS',
    here,
    'localhost:8080',
    'https://localhost:8080',
    null,
  ],
  ['its own page, where it speaks HTTPS', secure, 'localhost:8080', 'https://localhost:8080', null],
  [
    'a page that came without, where it speaks HTTPS',
    secure,
    'localhost:8080',
    'http://localhost:8080',
    'origin_not_allowed',
  ],
  ['a page on another port', here, 'localhost:8080', 'http://localhost:8081', 'origin_not_allowed'],
  ['a page of somebody else', here, 'localhost', 'https://evil.example.com', 'origin_not_allowed'],
])('%s', (_, names, host, origin, code) => {
  const call = (): void => requireNamed(host, origin, names);
  if (code === null) expect(call).not.toThrow();
  else
    expect(call).toThrow(
      expect.objectContaining({ status: 403, type: 'permission_error', code }) as never,
    );
});

test('who is refused is told the name and what to do', () => {
  expect(() => requireNamed(`${OTHER}:80`, undefined, here)).toThrow(
    'the host name "other.example.org" is not allowed; start the server with --allow-host',
  );
  expect(() => requireNamed('localhost', 'null', here)).toThrow(
    'pages of "null" may not call this server; start the server with --allow-origin',
  );
});
