// Package versions tests the versions of a kind on a real API server: conversion by a webhook, and storage migration.
package versions
