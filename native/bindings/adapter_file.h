// readAdapter(path), encodeAdapter(model, modules, baseSha256), and factors from and to JavaScript;
// src/engine/addon.ts describes them.
#pragma once

#include <vector>

#include <napi.h>

#include "training/adapter_file.h"

namespace isopro::bindings {

std::vector<training::AdapterModule> modulesOf(const Napi::Value& value);
Napi::Value fromModules(Napi::Env env, const std::vector<training::AdapterModule>& modules);
void exportAdapterFile(Napi::Env env, Napi::Object exports);

}  // namespace isopro::bindings
