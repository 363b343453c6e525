#!/bin/bash
set -e
cd /app
echo tiger > copy.txt
