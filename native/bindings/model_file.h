// NativeModelFile: a model to be written, as pieces for src/engine/model-export.ts.
#pragma once

#include <memory>

#include <napi.h>

#include "training/model_file.h"

namespace isopro::bindings {

// Where a NativeModelFile keeps its file; a job fills it before JavaScript asks for the first
// piece.
using ModelFileSlot = std::shared_ptr<std::unique_ptr<training::ModelFile>>;

ModelFileSlot modelFileOf(const Napi::Value& value);
void exportModelFile(Napi::Env env, Napi::Object exports);

}  // namespace isopro::bindings
