# For tools that speak GYP: one target that runs the CMake build, which does everything and knows what is stale.
# `npm run build:gyp` calls it with the gyp that npm itself carries; with a gyp of your own:
#   gyp bindings.gyp --depth=. -f make --generator-output=build/gyp && make -C build/gyp
{
  'targets': [
    {
      'target_name': 'isopro_native',
      'type': 'none',
      'actions': [
        {
          'action_name': 'cmake',
          'message': 'Building the addon with CMake',
          'inputs': ['CMakeLists.txt'],
          # Never written, so that CMake is asked every time.
          'outputs': ['<(INTERMEDIATE_DIR)/always'],
          'action': ['npm', 'run', 'build:native'],
        },
      ],
    },
  ],
}
