// Facts about a loaded model for JavaScript: src/engine/addon.ts, NativeModelInfo.
#pragma once

#include <napi.h>

#include "bindings/model_session.h"

namespace isopro::bindings {

Napi::Object modelInfo(Napi::Env env, const Model& model, const ModelSession& session);

}  // namespace isopro::bindings
