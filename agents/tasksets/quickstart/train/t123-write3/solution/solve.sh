#!/bin/bash
set -e
cd /app
echo wheel > key.txt
echo honey > start.txt
echo sharp > log.txt
