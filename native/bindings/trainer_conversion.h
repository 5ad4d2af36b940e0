// The trainer's options, sequences and results from and to JavaScript. What comes in has been
// checked in src/engine/.
#pragma once

#include <cstdint>
#include <vector>

#include <napi.h>

#include "training/trainer.h"

namespace isopro::bindings {

training::Target targetOf(const Napi::Value& value);
training::TrainerOptions optionsOf(const Napi::Object& object);
training::Objective objectiveOf(const Napi::Object& object);
// Boundaries stay in JavaScript's memory, which the call keeps alive and nobody else can reach
// (src/engine/typed-array.ts).
std::vector<training::TrainSequence> sequencesOf(const Napi::Value& value);

Napi::Value fromStatistics(Napi::Env env, const training::StepStatistics& statistics);
Napi::Value fromEvaluation(Napi::Env env, const training::Evaluation& evaluation);

}  // namespace isopro::bindings
