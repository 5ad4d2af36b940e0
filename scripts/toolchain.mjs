// What a build of the addon needs from the machine: git, CMake and a C++ compiler; and how to get
// each here. Used by scripts/install.mjs before it builds and by `isopro-native doctor`.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const MINIMUM_CMAKE = [3, 19];

/**
 * Command that installs packages on this machine, and the names of what it should install, by tool.
 */
function packageManager() {
  if (process.platform === 'darwin') {
    return {
      git: 'xcode-select --install',
      cmake: 'brew install cmake',
      compiler: 'xcode-select --install',
    };
  }
  if (process.platform === 'win32') {
    return {
      git: 'winget install Git.Git',
      cmake: 'winget install Kitware.CMake',
      compiler:
        'winget install Microsoft.VisualStudio.2022.BuildTools --override "--quiet --wait --add Microsoft.VisualStudio.Workload.VCTools ' +
        '--includeRecommended"',
    };
  }
  let family = '';
  try {
    const release = readFileSync('/etc/os-release', 'utf8');
    family = [...release.matchAll(/^ID(?:_LIKE)?="?([^"\n]*)"?$/gm)]
      .map((match) => match[1])
      .join(' ');
  } catch {
    // Not a Linux with os-release: the general advice below holds.
  }
  const known = [
    [/debian|ubuntu/, 'sudo apt-get install', 'g++ make'],
    [/fedora|rhel|centos/, 'sudo dnf install', 'gcc-c++ make'],
    [/suse/, 'sudo zypper install', 'gcc-c++ make'],
    [/arch/, 'sudo pacman -S', 'gcc make'],
    [/alpine/, 'sudo apk add', 'g++ make'],
  ].find(([pattern]) => pattern.test(family));
  if (known === undefined)
    return {
      git: 'install git with your package manager',
      cmake: 'install cmake with your package manager',
      compiler: 'install g++ (or clang++) and make with your package manager',
    };
  const [, install, compiler] = known;
  return { git: `${install} git`, cmake: `${install} cmake`, compiler: `${install} ${compiler}` };
}

/** First line that a tool prints about its version, or null where it cannot be run. */
function versionLine(command, args = ['--version']) {
  const result = spawnSync(command, args, { encoding: 'utf8', windowsHide: true });
  if (result.error !== undefined || result.status !== 0) return null;
  return result.stdout.split(/\r?\n/, 1)[0].trim();
}

/**
 * On macOS /usr/bin holds placeholders that open a dialog; only xcode-select tells whether the
 * tools behind them exist.
 */
function appleToolsMissing() {
  return process.platform === 'darwin' && spawnSync('xcode-select', ['-p']).status !== 0;
}

function findCompiler() {
  if (process.platform === 'win32') {
    // cmake-js asks Visual Studio's own locator; a compiler on PATH is the exception there.
    const locator = `${process.env['ProgramFiles(x86)'] ?? 'C:\\Program Files (x86)'}\\Microsoft Visual Studio\\Installer\\vswhere.exe`;
    const found = versionLine(locator, [
      '-products',
      '*',
      '-requires',
      'Microsoft.VisualStudio.Component.VC.Tools.x86.x64',
      '-property',
      'displayName',
    ]);
    return found === null || found === '' ? null : found;
  }
  if (appleToolsMissing()) return null;
  for (const command of [process.env.CXX, 'c++', 'g++', 'clang++']) {
    const line = command ? versionLine(command) : null;
    if (line !== null && (versionLine('make') ?? versionLine('ninja')) !== null) return line;
  }
  return null;
}

/**
 * One entry a tool: what was found (null where missing or too old) and the command that brings it.
 */
export function inspectToolchain() {
  const install = packageManager();
  const cmake = versionLine('cmake');
  const [major, minor] = (cmake?.match(/(\d+)\.(\d+)/)?.slice(1) ?? ['0', '0']).map(Number);
  const cmakeIsNew =
    major > MINIMUM_CMAKE[0] || (major === MINIMUM_CMAKE[0] && minor >= MINIMUM_CMAKE[1]);
  return [
    { tool: 'git', found: appleToolsMissing() ? null : versionLine('git'), remedy: install.git },
    {
      tool: `CMake ${MINIMUM_CMAKE.join('.')} or newer`,
      found: cmakeIsNew ? cmake : null,
      remedy: install.cmake,
    },
    { tool: 'a C++ compiler', found: findCompiler(), remedy: install.compiler },
  ];
}
