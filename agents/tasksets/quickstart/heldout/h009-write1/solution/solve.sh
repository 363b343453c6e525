#!/bin/bash
set -e
cd /app
echo dragon > result.txt
