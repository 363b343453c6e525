#!/bin/bash
set -e
cd /app
echo queen >> key.txt
echo circle > notes.txt
